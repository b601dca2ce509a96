"""The routes: grading (``work.py``), health and metrics (``operations.py``), the page (``page.py``), and refusals.

They run in the service's process and send every text to a worker process: no route parses an answer itself.
"""
