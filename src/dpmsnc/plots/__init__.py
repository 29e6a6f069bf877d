"""Pictures and HTML pages."""
