"""Parts of the documentation site (scripts/pages/build_site.py)."""
