"""Every metric that a run logs: unit, over what it is taken, where it is computed."""
