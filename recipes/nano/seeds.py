"""What stories can be about: a title, a sentence about the story and an opening that realises them, drawn together.

    The clown who lost his hat - A clown loses his hat - Once upon a time, there was a clown who lost his hat.

`draw_seed` makes them of word lists and patterns. The small story model continues the opening (`more_stories.py`), so
that its story belongs to a title as people would type it. Names are real ones from many places and invented ones.
"""

import random
from dataclasses import dataclass

HEROES = """
rabbit fox bear frog duck cat dog mouse owl turtle squirrel bird lion monkey elephant horse pig sheep cow fish dragon
princess king queen farmer baker boy girl wizard robot knight sailor teacher doctor snail bee butterfly penguin
hedgehog otter badger crow eagle sparrow goose swan rooster hen chick lamb goat donkey pony camel tiger leopard zebra
giraffe hippo rhino panda koala parrot flamingo ostrich seal whale dolphin shark crab lobster turtle snake lizard
crocodile toad newt spider ant ladybug cricket grasshopper worm caterpillar bat mole rat hamster beaver wolf deer moose
puppy kitten bunny duckling pigeon robin peacock dinosaur giant dwarf troll witch fairy elf mermaid ghost monster prince
pirate captain clown magician painter singer dancer tailor shoemaker miller fisherman hunter shepherd gardener cook chef
nurse firefighter policeman explorer astronaut inventor musician butcher blacksmith carpenter juggler beggar merchant
scarecrow snowman doll teddy puppet toy train boat truck balloon kite cloud star moon tree pumpkin teapot clock
grandmother grandfather uncle aunt mother father brother sister twin child old_man old_woman little_boy little_girl
""".split()
RARE_HEROES = """
walrus raccoon heron weasel ferret lynx gecko salamander octopus squid jellyfish starfish seahorse beetle moth firefly
dragonfly wasp mosquito flea gnat ladybird magpie raven falcon hawk vulture stork pelican turkey canary finch swallow
woodpecker cuckoo alpaca llama bison buffalo gorilla chimpanzee baboon lemur sloth armadillo anteater porcupine skunk
opossum chipmunk gopher marmot mongoose meerkat hyena jackal coyote panther cheetah jaguar antelope gazelle reindeer elk
mammoth mule ox calf foal piglet kid cub tadpole minnow trout salmon eel clam oyster snowflake raindrop pebble teaspoon
candle wagon tractor bus bicycle airplane submarine rocket lantern umbrella kettle broom mirror piano trumpet violin
drummer pilot driver postman mailman librarian barber weaver potter mason plumber janitor guard soldier general emperor
duke duchess countess monk nun priest bishop judge lawyer banker clerk waiter jester acrobat poet writer sculptor
gnome goblin ogre genie sorcerer unicorn phoenix centaur cyclops vampire zombie alien yeti neighbor cousin grandson
niece nephew orphan stranger traveler visitor champion runner swimmer climber thief burglar detective spy hermit
""".split()
TRAITS = """
little brave shy happy sad curious clever lazy kind grumpy hungry lonely playful gentle proud tiny big careless honest
greedy quiet loud friendly scared silly wise tired jealous polite strong old young poor rich blue green red golden
white black yellow purple fast slow sleepy sneaky forgetful messy stubborn selfish cheerful nervous bored thirsty
fluffy spotted striped tall short fat thin strange magic invisible rude patient impatient noisy
""".split()
THINGS = """
ball kite hat cake book key boat balloon ring box drum flower lamp stone blanket apple map bell feather mirror ladder
basket letter shell shoe boot sock scarf coat crown sword shield flute violin guitar trumpet whistle piano bicycle
wagon cart sled train truck car rocket lantern candle clock watch window door chair table bed pillow umbrella spoon
fork plate cup bowl pot pan teapot kettle jar bottle bucket broom rope net nest egg leaf acorn nut seed carrot pumpkin
potato bean pea cabbage tomato strawberry cherry pear peach plum lemon orange banana grape melon mushroom honey jam
bread butter cheese milk soup pie cookie candy pancake sandwich picnic present ribbon button needle thread coin purse
diamond pearl treasure necklace bracelet glasses wand cloak potion puzzle doll puppet toy block crayon paintbrush
picture song story secret dream wish puddle snowball icicle rainbow cloud star moon sun shadow tooth tail wing
bone stick log hammer nail saw shovel rake fence gate bridge tower house hut tent castle garden flag mask telescope
""".split()
LOOKS = """
blue green red golden silver white black yellow purple pink big tiny little old new broken magic shiny rusty soft heavy
wooden paper striped round huge beautiful strange missing secret empty favorite dirty sparkling
""".split()
UNCOUNTED = frozenset("honey jam bread butter cheese milk soup treasure glasses candy".split())
PLACES = """
in_forest in_village in_castle in_garden in_house in_town in_kitchen in_cave in_library in_river in_field in_barn
in_bakery in_museum in_hospital in_tower in_attic in_cellar in_palace in_desert in_jungle in_meadow in_pond in_swamp
in_harbor in_shop in_tent in_tree in_nest in_valley in_city in_street in_classroom in_bathroom in_bedroom in_closet
in_cupboard in_drawer in_basket in_boat in_hotel in_theater in_tunnel in_well in_garage in_mill in_windmill in_orchard
in_lighthouse in_snow in_rain in_fog in_king's_castle in_queen's_garden in_farmer's_barn in_old_house in_dark_forest
in_big_city in_tall_tower in_little_cottage in_giant's_house in_witch's_hut in_baker's_shop in_wizard's_tower
in_grandmother's_kitchen in_neighbor's_yard in_sky in_sea in_woods in_mountains in_zoo in_park in_ocean in_cornfield
on_mountain on_beach on_island on_hill on_farm on_ship on_bridge on_train on_moon on_roof on_playground on_desk
at_market at_circus at_station at_lake at_zoo at_beach at_park at_fair at_school at_pond at_picnic at_party at_hospital
under_bridge under_bed under_tree under_table under_stairs behind_door behind_waterfall behind_wall by_river by_lake
by_sea near_volcano near_windmill inside_clock inside_teapot inside_pumpkin inside_shoe
""".split()
FEARS = """
water thunder dogs cats mice spiders bees ghosts heights snow rain wind fire loud_noises the_dark the_night the_moon
the_sea strangers monsters cars big_dogs school flying swimming falling shadows clowns birds owls balloons
""".split()
WISHES = """
fly swim sing dance read write paint cook climb jump run draw talk laugh sleep whistle skate ski count travel
bake drive sail juggle play_the_drum play_the_piano ride_a_horse ride_a_bike see_the_sea see_the_snow see_the_sun
touch_the_moon catch_a_star win_the_race build_a_house be_a_king be_a_queen be_big be_small be_brave be_alone
go_to_school go_home find_a_friend have_a_pet tell_jokes grow_a_garden stay_awake make_soup wear_shoes
""".split()
# Base, third person, past: "loses", "lost".
DEEDS = """
lose/loses/lost find/finds/found steal/steals/stole make/makes/made break/breaks/broke hide/hides/hid buy/buys/bought
build/builds/built want/wants/wanted love/loves/loved share/shares/shared eat/eats/ate catch/catches/caught
paint/paints/painted fix/fixes/fixed carry/carries/carried forget/forgets/forgot bring/brings/brought drop/drops/dropped
give_away/gives_away/gave_away throw_away/throws_away/threw_away sell/sells/sold draw/draws/drew clean/cleans/cleaned
collect/collects/collected burn/burns/burned win/wins/won see/sees/saw hear/hears/heard keep/keeps/kept wear/wears/wore
look_for/looks_for/looked_for dream_of/dreams_of/dreamed_of take_care_of/takes_care_of/took_care_of
""".split()
TWO = """
become_friends/became_friends learn_to_share/learned_to_share have_a_race/had_a_race get_lost/got_lost
play_together/played_together have_a_fight/had_a_fight help_each_other/helped_each_other go_to_sea/went_to_sea
build_a_boat/built_a_boat bake_a_cake/baked_a_cake look_for_treasure/looked_for_treasure say_sorry/said_sorry
plant_a_tree/planted_a_tree sing_a_song/sang_a_song go_on_a_trip/went_on_a_trip
""".split()
NAMES = """
Tom Lily Ben Mia Sam Anna Max Lucy Tim Sue Jack Ella Leo Ruby Finn Rose Bella Oscar Amy Noah Zoe Daisy Molly Jill Mark
Nina Peter Wendy Hugo Ivy Toby Nora Milo Clara Emma Felix Otto Ida Karl Greta Lars Freya Sven Ingrid Pablo Lucia Mateo
Sofia Diego Carmen Marco Giulia Luca Chiara Pierre Claire Louis Colette Ivan Olga Boris Natasha Dmitri Katya Omar Layla
Hassan Fatima Yusuf Amina Ali Zara Kofi Ama Kwame Nia Tunde Ngozi Sanjay Priya Arjun Meera Ravi Anika Wei Ling Chen Mei
Kenji Sakura Taro Hana Minho Jisoo Kai Leilani Tala Winona Aiyana Takoda Moses Ruth Ezra Naomi Silas Edith Winston
Beatrice Rupert Matilda Cedric Agnes Barnaby Prudence Humphrey Dorothy Archibald Henrietta Ferdinand Josephine Ulysses
""".split()
_STARTS = """
A E I O U Al El Or Is Em Mb Ng Nk Kh Sh Zh Ts X B Bl Br C Ch D Dr F Fl G Gl Gr H J K Kl L M N P Pl Pr Qu R S Sk Sn St T
Th Tr V W Wh Y Z
""".split()
_MIDDLES = "a e i o u ee oo ai ar er or im um in on al el il".split()
_JOINTS = "b bb d dd f g gg l ll m mm n nn nd p pp r rr s ss t tt tz v x z zz mp nk bl dl gl".split()
_ENDINGS = "a o y ie le in en us el ix er ot kin bert ella olo ina um wick ley ford mond ette".split()


@dataclass(frozen=True, slots=True)
class Seed:
    """Prompts that ask for a story, and the sentence it can begin with; `hero` and `words` come back in it."""

    title: str
    about: str
    opening: str
    hero: str
    words: tuple[str, ...]


def invented_name(rng: random.Random) -> str:
    """A name nobody has, of one to three syllables and an ending."""
    start = rng.choice(_STARTS)
    name = start + ("" if start in "AEIOU" else rng.choice(_MIDDLES))
    for _ in range(rng.choice((0, 0, 1))):
        name += rng.choice(_JOINTS) + rng.choice(_MIDDLES)
    return name + rng.choice(_JOINTS) + rng.choice(_ENDINGS)


def draw_name(rng: random.Random) -> str:
    return invented_name(rng) if rng.random() < 0.5 else rng.choice(NAMES)


def draw_seed(rng: random.Random, *, avoid: frozenset[str] = frozenset()) -> Seed:
    """One seed; titles in `avoid` (lower case) are not drawn."""
    while True:
        seed = _draw(rng)
        if seed.title.lower() not in avoid and seed.about.lower() not in avoid:
            return seed


def _draw(rng: random.Random) -> Seed:
    hero, thing, other = (_plain(rng.choice(words)) for words in (HEROES, THINGS, HEROES))
    trait, second = rng.choice(TRAITS), rng.choice(LOOKS)
    where, place = _plain(rng.choice(PLACES)).split(" ", 1)
    name = draw_name(rng)
    _, third, past = map(_plain, rng.choice(DEEDS).split("/"))
    both, both_past = map(_plain, rng.choice(TWO).split("/"))
    wish, fear = _plain(rng.choice(WISHES)), _plain(rng.choice(FEARS))
    his = rng.choice(("his", "her"))
    he = "he" if his == "his" else "she"
    described = f"{trait} {hero}" if rng.random() < 0.3 else hero
    object_ = f"{second} {thing}" if rng.random() < 0.3 else thing
    own = rng.choice((f"{his} {object_}", _a(object_), f"the {object_}"))
    into = f"{where} {_the(place)}"
    once = rng.choice(
        ("Once upon a time, there was", "Once there was", "There was once", "There once was", "Long ago, there was")
    )
    one_day = rng.choice(("One day,", "One morning,", "One sunny day,", "One night,", "One day"))
    a_hero, a_thing, a_described = _a(hero), _a(object_), _a(described)
    drawn: list[tuple[str, str, str, str, tuple[str, ...]]] = [  # title, about, opening, hero, other content words
        (
            f"{_a_or_the(rng, described)} {into}",
            f"{a_described} lives {into}",
            f"{once} {a_described} who lived {into}.",
            hero,
            (described, place),
        ),
        (
            f"the {described} who {past} {own}",
            f"{a_described} {third} {own}",
            f"{once} {a_described} who {past} {own}.",
            hero,
            (described, past, object_),
        ),
        (
            f"the {described} who was {rng.choice(('afraid', 'scared'))} of {fear}",
            f"{a_described} is afraid of {fear}",
            f"{once} {a_described} who was afraid of {fear}.",
            hero,
            (described, fear),
        ),
        (
            f"the {described} who wanted to {wish}",
            f"{a_described} wants to {wish}",
            f"{once} {a_described} who wanted to {wish}.",
            hero,
            (described, wish),
        ),
        (
            f"the {described} who could not {wish}",
            f"{a_described} cannot {wish}",
            f"{once} {a_described} who could not {wish}.",
            hero,
            (described, wish),
        ),
        (
            f"the {described} and the {object_}",
            f"{a_described} has {a_thing}",
            rng.choice((f"{one_day} {a_described} found {a_thing}.", f"{once} {a_described} who had {a_thing}.")),
            hero,
            (described, object_),
        ),
        (
            f"the {described}'s {object_}",
            f"{a_described} and {his} {object_}",
            rng.choice((f"{once} {a_described} who loved {his} {object_}.", f"The {described} had {a_thing}.")),
            hero,
            (described, object_),
        ),
        (
            f"the {trait} {hero}",
            f"{a_hero} is very {trait}",
            rng.choice((f"{once} {_a(f'{trait} {hero}')}.", f"{once} {a_hero} who was very {trait}.")),
            hero,
            (trait,),
        ),
        (
            f"the {hero} with the {second} {thing}",
            f"{a_hero} has {_a(f'{second} {thing}')}",
            f"{once} {a_hero} with {_a(f'{second} {thing}')}.",
            hero,
            (second, thing),
        ),
        (
            rng.choice((f"{name} and the {object_}", f"{name}'s {object_}")),
            f"{name} has {a_thing}",
            rng.choice(
                (f"{name} had {a_thing}.", f"{one_day} {name} found {a_thing}.", f"{name} loved {his} {object_}.")
            ),
            name,
            (object_,),
        ),
        (
            rng.choice((f"{name} the {described}", f"{a_described} called {name}", f"{name}, the {described}")),
            f"{a_described} called {name}",
            rng.choice((f"{once} {a_described} named {name}.", f"{name} was {a_described}.")),
            name,
            (described,),
        ),
        (
            f"{name} {into}",
            f"{name} is {into}",
            rng.choice((f"{one_day} {name} was {into}.", f"{name} lived {into}.", f"{one_day} {name} played {into}.")),
            name,
            (place,),
        ),
        (
            f"{name} {third} {own}",
            f"{name} {third} {own}",
            f"{one_day} {name} {past} {own}.",
            name,
            (past, object_),
        ),
        (
            f"the {hero} and the {other}",
            f"{a_hero} and {_a(other)} {both}",
            rng.choice(
                (
                    f"{once} {a_hero} and {_a(other)} who {both_past}.",
                    f"{one_day} {a_hero} and {_a(other)} {both_past}.",
                )
            ),
            hero,
            (other, both_past),
        ),
        (
            f"the {hero}, the {other} and the {_last(place)}",
            f"{a_hero} lives {into} with {_a(other)}",
            f"{once} {a_hero} who lived {into} with {_a(other)}.",
            hero,
            (other, place),
        ),
        (
            rng.choice((f"{name} wants to {wish}", f"{name} who could not {wish}")),
            f"{name} learns to {wish}",
            f"{name} wanted to {wish}, but {he} could not.",
            name,
            (wish,),
        ),
    ]
    title, about, opening, main, words = rng.choice(drawn)
    content = dict.fromkeys(word for phrase in (main, *words) for word in phrase.replace("'s", "").split())
    kept = tuple(word for word in content if word not in _LIGHT)
    return Seed(*map(_first_capital, (title, about, opening)), hero=main.split()[-1], words=kept)


_LIGHT = frozenset("a an the be have go to of care who away for see make find get and each other".split())


def _first_capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _plain(entry: str) -> str:
    return entry.replace("_", " ")


def _last(place: str) -> str:
    return place.split()[-1]


def _the(place: str) -> str:
    return place if place == "school" else f"the {place}"


def _a(phrase: str) -> str:
    if phrase.split()[-1] in UNCOUNTED:
        return f"some {phrase}"
    return f"an {phrase}" if phrase[0] in "aeiou" else f"a {phrase}"


def _a_or_the(rng: random.Random, phrase: str) -> str:
    return _a(phrase) if rng.random() < 0.5 else f"the {phrase}"
