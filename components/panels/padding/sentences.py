"""A text to try batches with."""

from typing import Final

TWENTY: Final = """\
Listen.
Birds sing.
Rain fell softly.
The train was late.
She keeps bees at home.
Nobody knew the old man's name.
We walked along the river until dark.
My brother is learning to play the cello.
The bakery on the corner closes early on Sundays.
After the storm, the harbour was full of broken boats.
He wrote a long letter to his sister in New Zealand.
The museum has a small room full of clocks that still work.
When the lights went out, everyone in the theatre began to laugh quietly.
The engineers measured the bridge twice before they let the first truck drive across.
Most of the letters in the box were addressed to people who had moved away.
It was so cold that morning that the lake froze and the ducks walked over it.
The doctor told her that she should sleep more, eat less sugar, and go for long walks.
If you follow this path past the mill, you will reach a village with only one open shop.
The teacher asked the class to write down every word they could remember from the poem about the sea.
Although the test had failed three times already, two students set up the apparatus once more and waited for results.
"""
"""One sentence a line: of 1, 2, 3 ... 20 words."""
