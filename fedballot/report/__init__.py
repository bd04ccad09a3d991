"""From a run folder to pages and pictures: `report.html`, comparisons of runs, and pictures of data."""
