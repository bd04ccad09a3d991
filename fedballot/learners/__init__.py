"""What a client trains: the Learner protocol, torch and scikit-learn. Importing this needs no torch."""
