"""What every package may use and no record needs: JSON Lines, outputs, tapes, workers, options, errors. Imports nothing of the package."""
