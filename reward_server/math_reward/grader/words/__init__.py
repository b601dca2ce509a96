"""Words and what they mean, in the languages that users write in: numbers, units, functions. In a worker process."""
