# What solutions find in a container of machine-learning engineering: torch, transformers and what works on tables,
# pictures, text and sound, at the versions of constraints-ml.txt. Pretrained weights come with --weights, not in it.
# `make image KIND=ml` builds it; TORCH_INDEX=https://pypi.org/simple gives the build for GPUs.
ARG BASE=python:3.11-slim
FROM ${BASE}
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# LightGBM's own library of threads
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY constraints-ml.txt /tmp/constraints.txt
# pip compiles what it installs, as the root is read-only later. torch comes first and alone: from its own index.
RUN pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore -c /tmp/constraints.txt \
        --index-url ${TORCH_INDEX} torch torchvision torchaudio
RUN pip install --no-cache-dir --disable-pip-version-check --root-user-action=ignore -c /tmp/constraints.txt \
        numpy pandas polars pyarrow scipy scikit-learn statsmodels xgboost lightgbm catboost optuna imbalanced-learn \
        category-encoders networkx \
        transformers datasets accelerate peft sentence-transformers nltk gensim spacy \
        timm albumentations opencv-python-headless scikit-image pillow pydicom \
        librosa soundfile
# The tables inside scikit-learn hold answers of tasks.
RUN python3 -c "import os, shutil, sklearn; path = os.path.join(sklearn.__path__[0], 'datasets', 'data'); shutil.rmtree(path); os.mkdir(path)" \
 && python3 -c "import torch, torchvision, torchaudio, transformers, timm, lightgbm, xgboost, catboost, librosa, cv2, sklearn.ensemble"
ENV LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65534:65534
WORKDIR /
CMD ["python3"]
