"""What is made of replays: sweeps, maps, tables, figures, the judge, the optimum, the real allocator as an oracle."""
