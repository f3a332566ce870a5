"""Measurements of the engine, of what goes to the browser, and of the page. They print tables and judge no time."""
