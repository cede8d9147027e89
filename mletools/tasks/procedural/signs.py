"""What the factors of a medium are called by those who look at the files: phrases for the sentence about signs."""

from collections.abc import Iterable

# Factor: more of it, less of it.
PHRASES = {
    "image_stripe_frequency": ("finer stripes", "coarser stripes"),
    "image_stripe_contrast": ("stronger stripes", "fainter stripes"),
    "image_spot_count": ("more spots", "fewer spots"),
    "image_spot_radius": ("larger spots", "smaller spots"),
    "image_grain": ("a coarser grain", "a smoother grain"),
    "image_mirror_symmetry": ("more symmetry between left and right", "less symmetry between left and right"),
    "audio_pitch": ("a higher pitch", "a lower pitch"),
    "audio_glide": ("a rising pitch", "a falling pitch"),
    "audio_tremolo_rate": ("faster beats", "slower beats"),
    "audio_click_count": ("more clicks", "fewer clicks"),
    "audio_noise_share": ("more noise", "less noise"),
    "audio_overtones": ("stronger overtones", "weaker overtones"),
    "graph_triangles": ("more closed triangles", "fewer closed triangles"),
    "graph_most_links": ("more links at the busiest node", "fewer links at the busiest node"),
    "graph_crossing_links": ("more links between the two halves", "fewer links between the two halves"),
    "graph_tail_length": ("a longer dead end", "a shorter dead end"),
    "graph_crossing_weight": ("heavier links between the two halves", "lighter links between the two halves"),
    "graph_busy_weight": ("heavy links at busy nodes", "heavy links at quiet nodes"),
    "series_trend": ("a rising trend", "a falling trend"),
    "series_season_size": ("wider swings of the season", "narrower swings of the season"),
    "series_shift_size": ("a larger jump of the level", "a smaller jump of the level"),
    "series_scatter": ("more scatter", "less scatter"),
    "series_memory": ("slow returns to the usual level", "quick returns to the usual level"),
    "series_spike_count": ("more spikes", "fewer spikes"),
    "series_late_scatter": ("scatter that grows", "scatter that shrinks"),
    "text_praise_share": ("praise", "complaints"),
    "text_doubt_share": ("doubtful wording", "firm wording"),
    "text_gravity": ("words such as severe", "words such as negligible"),
    "text_urgency": ("a call to act soon", "no haste"),
}


def phrases(factors: Iterable[tuple[str, bool]]) -> list[str]:
    """The phrases of those factors that have one, each once; the flag says whether more of it is meant."""
    return list(dict.fromkeys(PHRASES[name][0 if more else 1] for name, more in factors if name in PHRASES))
