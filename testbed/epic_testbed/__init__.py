"""Where realizations meet the protocol: topologies, runners, the main job."""
