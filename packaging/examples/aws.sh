#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# aws.sh AMI [OPTION...]: starts an EC2 instance from the image with the ID AMI, in which node-bootstrap.service is enabled. Its user
# data is the file "user-data" in the working directory; in the console, put the same text into "User data" under "Advanced details".
# Every process that reaches the metadata service can read it. A hop limit of 1 excludes pods with their own network. Make the token short-lived.
set -eu

image=${1:?expected the ID of an AMI}
shift
exec aws ec2 run-instances --image-id "$image" --user-data file://user-data \
        --metadata-options HttpTokens=required,HttpPutResponseHopLimit=1,HttpEndpoint=enabled "$@"
