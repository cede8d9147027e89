"""The media of procedural tasks, a module each: see world.Medium for what a module has."""
