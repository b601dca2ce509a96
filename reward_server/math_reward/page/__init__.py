"""The service's page: its files, in ``static/``, which run in the browser, and the explanation of a grade.

``explain.py`` runs in a worker process of the explainer's own pool.
"""
