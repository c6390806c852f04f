"""Texts to calibrate on where a user gives none: sentences, pairs and passages of many kinds, written for this."""

import random
from functools import cache

_SENTENCES = (
    "The film is a quiet, patient study of people who have run out of things to say.",
    "No.",
    "It wasn't bad; it wasn't good, either - and at 2h47 it was far too long (for me, at least)!",
    "How do I renew my passport?",
    "Where can an expired passport be renewed by post?",
    "A man is playing a guitar on stage.",
    "Nobody is making music.",
    "Ein Café in Zürich, 東京の天気, and a résumé: 100% mixed.",
    "The bank raised its key rate by a quarter of a point on Thursday, the third rise this year.",
    "Shares of the company fell 4.2 percent to $31.07 in early trading.",
    "Her first novel has charm, wit and not a single believable person in it.",
    "an utterly forgettable comedy that mistakes noise for energy",
    "one of the finest performances of the decade",
    "what were they thinking",
    "Please cancel my order #48213 and refund the card I paid with.",
    "my card was declined at the checkout twice, why?",
    "play the next song please",
    "wake me up at half past six tomorrow",
    "Book a table for four at an Italian place near the station on Friday evening.",
    "Will it rain in Lisbon this weekend?",
    "The committee that the senators chose has yet to meet.",
    "Which of the books did the teacher say that the students had to read?",
    "The boys was eager to leaving early.",
    "John believes himself to be taller than he is.",
    "This door opens easily, but that one has to be pushed.",
    "The more you read, the less you know.",
    "Two dogs run across a field of snow while a child watches.",
    "A woman in a red coat is waiting for a bus.",
    "Several people sit around a table and eat.",
    "There is no one in the kitchen.",
    "Water boils at a lower temperature where the air is thinner, which is why pasta takes longer in the mountains.",
    "Cells divide, copy their DNA, and pass one set of chromosomes to each daughter.",
    "The treaty of 1648 ended thirty years of war, and most of the states that signed it no longer exist.",
    "In 2019, about 1,250,000 tonnes were exported; by 2023 it was a third less.",
    "The patient was given 20 mg twice a day for six weeks without side effects.",
    "Either party may terminate this agreement with thirty days' notice in writing.",
    "Subject to the conditions in section 4(b), the licensee shall not sublicense, sell or lend the software.",
    "Preheat the oven to 200 degrees, then roast the carrots for half an hour with oil, salt and thyme.",
    "Turn left at the church, go straight on for two miles, and you will see it on your right.",
    "For sale: bicycle, hardly used, one careful owner.",
    "The goalkeeper saved a penalty in the last minute, and 40,000 people sang all the way home.",
    "They lost 3-0, again.",
    "I love how the update fixed nothing and broke the search. Great job.",
    "Honestly the best purchase I've made this year!!!",
    "Arrived late, the box was torn, and one of the two cups is chipped.",
    "meh",
    "ok thx, will try that tmrw",
    "LOL that's so not what she meant :)",
    "Can anybody explain why this returns None instead of a list?",
    "def mean(values): return sum(values) / len(values)",
    "ValueError: expected 3 columns, got 2 in line 17 of data.csv",
    "SELECT name, count(*) FROM orders GROUP BY name ORDER BY 2 DESC;",
    "See https://example.org/docs/index.html#install for the details.",
    "Contact: jane.doe@example.com, +44 20 7946 0018.",
    "What is the best way to learn to play the piano as an adult?",
    "How can I learn piano on my own if I am over forty?",
    "Why do cats purr?",
    "What makes a cat purr when nobody is near it?",
    "Is it safe to eat rice that was left out overnight?",
    "Which phone has the best camera under 300 euros?",
    "He said that the report, which nobody had read, was wrong in every respect.",
    "The minister denied on Monday that he had known of the payments.",
    "On Monday the minister said he knew nothing about any payments.",
    "Police are looking for a grey van that was seen near the school shortly after eight.",
    "The river had been rising since dawn, and by noon the lower road was gone.",
    "She closed the door softly, as one does in a house where somebody is ill, and listened.",
    "It was the kind of morning on which even the sparrows seem to have a plan.",
    "Old Mr. Hargreave kept bees, and told them everything.",
    "'You are late,' said the clock, or so it seemed to him.",
    "All animals that lay eggs are not birds; some birds that lay eggs cannot fly.",
    "If the first switch is on and the second is off, then neither lamp is lit.",
    "Not every swan is white.",
    "The museum is closed on Mondays, on public holidays, and whenever the guard oversleeps.",
    "Temperatures will drop to minus five tonight, with fog in the valleys and light snow above 800 metres.",
    "The orchestra played the slow movement as if it had all the time in the world.",
    "A dull, overlong, and strangely joyless adaptation of a book that deserved better.",
    "Smart, tender and very funny, it is the sort of picture that you recommend to strangers.",
    "the acting is fine , but the script never finds out what it is about .",
    "A tax on sugar would cut consumption, its supporters say; its critics call it a tax on the poor.",
    "Der Zug nach München fährt heute von Gleis sieben.",
    "Le musée est fermé jusqu'à nouvel ordre.",
    "El niño que vimos ayer no quiso decir su nombre.",
    "Это было давно и неправда.",
    "今日はとても寒いですね。",
    "Flights AB123 and CD4567 leave at 06:45 and 23:10 from terminal 2.",
    "The committee will vote on the 3rd of May, or, if there is no quorum, a week later.",
    "Nothing in the letter suggested that she would come, and yet he laid a second plate.",
    "Small models answer quickly, large ones answer well, and most people need both.",
    "This is the house that the man whom the dog bit sold.",
    "Do not open the valve before the pressure has fallen below 2 bar.",
    "The cheapest seats are behind a pillar.",
    "Thank you for your message; I am away until the 14th and will answer after that.",
)


@cache
def sample_rows(count: int) -> tuple[tuple[str, ...], ...]:
    """Rows of one text or two, drawn with a fixed seed: sentences, pairs of them, passages of up to eight, and pairs of passages."""
    draw = random.Random(0)

    def passage(sentences: int) -> str:
        return " ".join(draw.sample(_SENTENCES, sentences))

    rows: list[tuple[str, ...]] = [(sentence,) for sentence in _SENTENCES]
    while len(rows) < count:
        kind = draw.random()
        if kind < 0.4:
            rows.append((passage(1), passage(1)))
        elif kind < 0.8:
            rows.append((passage(draw.randint(2, 8)),))
        else:
            rows.append((passage(draw.randint(1, 3)), passage(draw.randint(1, 3))))
    draw.shuffle(rows)
    return tuple(rows[:count])
