"""A made-up history whose true answers are known: `python -m kohort.analytics.generate DIR --commits 1000000`."""
