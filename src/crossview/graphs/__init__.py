"""Graphs over samples: who is near whom (neighbours) and in which patch (patches)."""
