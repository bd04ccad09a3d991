"""What `import fedballot` offers: run, load, compare, sweep, budget, audit, and a classifier for scikit-learn."""
