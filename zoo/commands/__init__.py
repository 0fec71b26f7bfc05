"""What each command does; ``zoo/cli.py`` has their flags."""
