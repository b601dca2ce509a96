"""Mixed-policy DAPO in OpenRLHF's loop: a frozen guide answers prompts too, beside the policy (Tan & Li, arXiv
2507.12931).

This is a reconstruction: the paper's printed objectives could not be obtained. The mathematics is in
`openrlhf_gtpo.algorithms.mixed_policy`.
"""
