"""What a plan can be launched with: one folder a framework, and the physics that binds all of them."""
