"""What is printed and saved: tables for people, JSON for programs."""
