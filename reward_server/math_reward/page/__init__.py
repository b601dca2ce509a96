"""The service's page: its files, in ``static/``, and the explanation of a grade with both sides drawn in MathML.

``explain.py`` and ``mathml.py`` run in a worker process of the explainer's own pool; ``static/`` runs in the browser.
"""
