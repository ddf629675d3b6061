/** The address of a bucket in the form of a URL, `http://<access key>:<secret>@host:port/<bucket>`. */
export function readBucketUrl(url: string) {
  const { origin, username, password, pathname } = new URL(url)
  const credentials = { accessKeyId: decodeURIComponent(username), secretAccessKey: decodeURIComponent(password) }
  return { endpoint: origin, bucket: pathname.slice(1), credentials }
}

/**
 * Creates the bucket unless it exists, stores an object in it and removes the object again. Returns whether this
 * worked, that is, whether the server accepts blobs.
 */
export async function createBucket(url: string): Promise<boolean> {
  // Loaded here: most test files need the engines, and few of them S3.
  const { CreateBucketCommand, DeleteObjectCommand, PutObjectCommand, S3Client } = await import('@aws-sdk/client-s3')
  const { endpoint, bucket: Bucket, credentials } = readBucketUrl(url)
  const client = new S3Client({ endpoint, credentials, region: 'us-east-1', forcePathStyle: true, maxAttempts: 1 })
  const Key = 'probe'
  try {
    await client.send(new CreateBucketCommand({ Bucket })).catch((error: unknown) => {
      if (!(error instanceof Error) || !error.name.startsWith('BucketAlready')) throw error
    })
    await client.send(new PutObjectCommand({ Bucket, Key, Body: 'probe' }))
    await client.send(new DeleteObjectCommand({ Bucket, Key }))
    return true
  } catch {
    return false
  } finally {
    client.destroy()
  }
}
