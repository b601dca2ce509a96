"""A rollout batch as a whole, and what may be done to it; in the controller. Which changes a run has is in
`openrlhf_gtpo.controller.transformations`."""
