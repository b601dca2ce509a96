"""What a completion states: its boxes, the phrase before its answer, the value at its end; without its prompt.

Texts in, texts out; nothing is parsed here. In a worker process, as all of the grader.
"""
