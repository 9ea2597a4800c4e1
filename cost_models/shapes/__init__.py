"""What is priced: the model, the job, the strategy and its switches, where layers sit, and what layers share a price."""
