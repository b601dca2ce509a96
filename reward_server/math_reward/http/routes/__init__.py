"""The routes: grading (``work``), health and metrics (``operations``), the page's own (``page``), and refusals.

They run in the service's process and send every text to a worker process: no route parses an answer itself.
"""
