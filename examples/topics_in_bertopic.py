"""Topics of short texts: ``cw.Clusterer`` in the place of HDBSCAN in BERTopic.

BERTopic takes any clusterer in its slot ``hdbscan_model``: it calls ``fit(embeddings)``, reads ``labels_``,
and calls ``predict`` for new texts. The few lines of ``topic_words`` below do the same, so that the example
runs without BERTopic.

    BERTopic(hdbscan_model=cw.Clusterer(), umap_model=BaseDimensionalityReduction())
"""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import clusterwise as cw

SUBJECTS = {
    "cooking": "oven flour butter sugar bake onion garlic pan salt recipe stir boil",
    "sailing": "wind sail harbour mast rope deck wave anchor boat tide captain storm",
    "chess": "pawn rook bishop queen king castle gambit opening checkmate board endgame knight",
    "garden": "soil seed root leaf prune water bloom compost spade weed hedge rose",
}


def write_texts(n: int = 240, seed: int = 0) -> list[str]:
    """Made-up texts of eight words about one of four subjects each."""
    rng = np.random.default_rng(seed)
    subjects = [words.split() for words in SUBJECTS.values()]
    return [" ".join(rng.choice(subjects[rng.integers(4)], 8)) for _ in range(n)]


def topic_words(texts: list[str], model: cw.Clusterer, embeddings: np.ndarray) -> dict[int, list[str]]:
    """What BERTopic does with its clusterer: fit, read the labels, and weigh words by topic."""
    labels = model.fit(embeddings).labels_
    counts = CountVectorizer().fit(texts)
    words = counts.get_feature_names_out()
    by_topic = {}
    for topic in range(model.n_clusters_):
        of_topic = counts.transform(
            [" ".join(t for t, label in zip(texts, labels, strict=True) if label == topic)]
        )
        by_topic[topic] = [str(words[place]) for place in np.argsort(-of_topic.toarray()[0])[:4]]
    return by_topic


def main() -> dict[int, list[str]]:
    """Print the topics."""
    texts = write_texts()
    embed = make_pipeline(TfidfVectorizer(), TruncatedSVD(10, random_state=0), Normalizer())
    topics = topic_words(texts, cw.Clusterer(random_state=0), embed.fit_transform(texts))
    for topic, words in topics.items():
        print(f"topic {topic}: {', '.join(words)}")
    return topics


if __name__ == "__main__":
    main()
