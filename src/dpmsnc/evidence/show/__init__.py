"""Tables, figures and pages of stored runs."""
