"""A report on one or several runs, as one HTML file without further files."""
