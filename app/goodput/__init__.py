"""What a plan delivers on a site with failures: tokens a day, days, energy and cost."""
