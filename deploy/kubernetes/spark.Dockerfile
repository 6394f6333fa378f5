# Image for Spark's own Kubernetes master and for the Spark Operator: Spark's image with groupreplay and its libraries.
# Make the archive for the image's Spark and Python in an empty folder, then build the image there. The version of its
# Python is what `docker run --rm IMAGE python3 --version` prints.
#   groupreplay bundle -o env.tar.gz --spark 4.0.0 --python 3.10
#   docker build -f .../deploy/kubernetes/spark.Dockerfile -t groupreplay-spark:0.1.0 .
ARG SPARK_IMAGE=apache/spark:4.0.0-scala2.13-java17-python3-ubuntu
FROM ${SPARK_IMAGE}
# ADD unpacks the archive.
ADD env.tar.gz /opt/groupreplay/
COPY job.py /opt/groupreplay/job.py
ENV PYTHONPATH=/opt/groupreplay
