"""Parts of the documentation site (scripts/build_site.py)."""
