"""A made-up history whose true answers are known: `python -m tests.analytics.generate DIR --commits 1000000`."""
