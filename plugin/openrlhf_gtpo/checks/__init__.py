"""Every check of a command line before training: functions from `openrlhf_gtpo.settings.Settings` to findings.

A dry run asks `flags` and `files` (with `data`, what is in the data sets), a run `services` too, the doctor all."""
