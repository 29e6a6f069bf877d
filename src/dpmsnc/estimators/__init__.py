"""Estimators with the verbs of scikit-learn, and the folders that fitted models are saved in."""
