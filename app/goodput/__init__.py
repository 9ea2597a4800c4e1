"""What a plan delivers on a site that fails: tokens a day, days, energy and cost."""
