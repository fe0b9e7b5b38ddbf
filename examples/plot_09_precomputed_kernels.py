"""
Precomputed kernels
===================

Some samples are not vectors: strings, graphs, sets. A kernel method only needs their similarities. This example matches
images of handwritten digits with misspelt number words, for which it computes a string kernel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances, rbf_kernel

import crossview as cv

# %%
# Every image gets a number word in one of six languages, with one letter dropped, doubled or replaced.
images, y = load_digits(return_X_y=True)
images, y = images[:900] / 16, y[:900]
languages = [
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"],
    ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"],
    ["nul", "een", "twee", "drie", "vier", "vijf", "zes", "zeven", "acht", "negen"],
    ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf"],
    ["cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve"],
    ["zero", "uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove"],
]
random = np.random.default_rng(0)


def misspell(word):
    """Drop, double or replace a random letter."""
    k = random.integers(len(word))
    letter = random.choice(
        ["", 2 * word[k], random.choice(list("abcdefghijklmnopqrstuvwxyz"))]
    )
    return word[:k] + letter + word[k + 1 :]


words = np.array([misspell(languages[random.integers(6)][digit]) for digit in y])
print("Some words for 7:", *words[y == 7][:6])

# %%
# The similarity of two words counts the substrings of one to three letters that they have in common; spaces mark the
# ends of a word. Any other positive semi-definite function of two strings would do. Images have an rbf kernel. With
# ``kernel="precomputed"``, samples are rows of similarities to the training samples.
train, test = np.arange(400), np.arange(400, 900)
substrings = CountVectorizer(analyzer="char_wb", ngram_range=(1, 3)).fit(words)


def similarities(rows):
    """Both views of some samples, as similarities to the training samples."""
    return {
        "image": rbf_kernel(images[rows], images[train], gamma=0.05),
        "word": cosine_similarity(
            substrings.transform(words[rows]), substrings.transform(words[train])
        ),
    }


model = cv.KMvHE(kernel="precomputed").fit(similarities(train), y[train])

# %%
# The test samples are new images, with newly drawn words. The picture shows the first image of every digit, and above
# it the nearest of the 500 test words.
latents = model.transform(similarities(test))
accuracy = cv.metrics.cross_view_accuracy(latents, y[test])
print(f"Images that find a word for their digit: {accuracy[1, 0]:.1%}")
print(f"Words that find an image of their digit: {accuracy[0, 1]:.1%}")
shown = np.unique(y[test], return_index=True)[1]
nearest = euclidean_distances(latents["image"][shown], latents["word"]).argmin(axis=1)

fig, axes = plt.subplots(2, 5, figsize=(6.4, 3.4), layout="constrained")
for ax, probe, match in zip(axes.flat, test[shown], test[nearest], strict=True):
    is_right = y[probe] == y[match]
    ax.imshow(images[probe].reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    ax.set_title(
        f"{words[match]} {'✓' if is_right else '✗'}",
        color="#0072b2" if is_right else "#d55e00",
        fontsize=15,
    )
fig.suptitle("The nearest number word of a new image")
plt.show()
