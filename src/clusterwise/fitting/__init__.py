"""What `fit` is: prepare, propose, refine, describe."""
