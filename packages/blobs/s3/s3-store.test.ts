import { PutObjectCommand } from '@aws-sdk/client-s3'
import { expect, test } from '@jest/globals'
import { describeWithS3, testS3 } from '../../../tests/support/engines/test-engines.ts'
import { describeBlobStore } from '../conformance/conformance.ts'
import { chunksOf, listAll } from '../conformance/harness.ts'
import { openBlobStore } from '../open-blob-store.ts'
import { createClient } from './client.ts'
import { parseS3Url } from './url.ts'

describeWithS3('with S3', () => {
  describeBlobStore('S3', {
    createPlace: () => {
      const { url, credentials } = testS3()
      return { url, options: { credentials } }
    },
  })

  test('objects of others are not listed: the folder that a console makes, and names against the rules', async () => {
    const { url, credentials } = testS3()
    const address = parseS3Url(url)
    const client = createClient(address, credentials)
    for (const name of ['', 'my report.csv', 'folder/']) {
      await client.send(new PutObjectCommand({ Bucket: address.bucket, Key: `${address.prefix}${name}`, Body: '' }))
    }
    client.destroy()
    const store = await openBlobStore(url, { credentials })
    await store.write('a', chunksOf(Buffer.from('x')))
    expect(await listAll(store)).toMatchObject([{ name: 'a' }])
    await store.close()
  })
})
