import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.naive_bayes import MultinomialNB

words = pd.Series(["good fine day", "bad awful day", "fine good", "awful bad night"] * 5)
features = TfidfVectorizer(ngram_range=(1, 2)).fit_transform(words)
print(MultinomialNB().fit(features, [1, 0, 1, 0] * 5).predict_proba(features[:3]).tolist())
