"""Words that people type into anything: none of them is a number, in any of the languages."""

COMMON = """
hello hi hey test testing foo bar baz qux asdf qwerty abc abcd xyz lorem ipsum dolor sit amet cat dog cats dogs bird
fish horse mouse apple banana orange lemon tree flower house home car bus train plane bike boat road street city town
country river lake sea ocean mountain sun moon star sky rain snow wind weather water fire earth air food bread cheese
milk coffee tea beer wine man woman boy girl child people person friend family mother father brother sister name age
year month week day hour minute time today tomorrow yesterday now then never always often why what who where when how
which whose is are was were be been have has had do does did can could will would should may might must not yes please
thanks thank you welcome sorry good bad big small large little long short high low old new young hot cold warm fast slow
red green blue yellow black white grey pink purple brown happy sad angry tired hungry love like hate want need know
think say tell ask answer question help stop start go come run walk eat drink sleep work play read write speak listen
music song film book page letter word text number digit figure sum total price euro dollar money computer phone keyboard
screen window door table chair bed room kitchen garden school teacher student doctor police king queen president world
attention model server python code program function bug error data machine learning language the quick brown jumps over
lazy my your his her its our their this that these those and or but if because with without from into under above left
right up down many few some all more less most least nothing something everything nobody somebody bonjour salut merci
monde chat chien maison voiture pomme rouge vert bleu oui non pourquoi comment hallo welt katze hund haus auto apfel rot
gelb blau ja nein warum wie danke bitte hola mundo gato perro casa coche manzana rojo verde azul gracias ciao gatto cane
macchina mela rosso giallo grazie perché kat huis appel rood groen dank waarom olá cachorro maçã vermelho obrigado
""".split()
