import { describe, expect, test } from '@jest/globals'
import { HostNotResolvedError, type Resolve } from './resolve-host.ts'
import { checkTarget } from './target-url.ts'

const addresses: Readonly<Record<string, readonly string[]>> = {
  'public.test': ['8.8.8.8', '2606:4700::1111'],
  'private.test': ['10.0.0.1'],
  'both.test': ['8.8.8.8', 'fd00::1'],
}
const resolve: Resolve = (hostname) => {
  const found = addresses[hostname]
  return found ? Promise.resolve(found) : Promise.reject(new HostNotResolvedError(hostname))
}
const options = { allowedNetworks: ['192.168.7.0/24'], resolve }

describe('a URL is refused that', () => {
  test.each([
    ['', 'must be a URL such as https://example.com/hook'],
    ['example.com/hook', 'must be a URL such as https://example.com/hook'],
    ['http://', 'must be a URL such as https://example.com/hook'],
    ['http://a b/', 'must be a URL such as https://example.com/hook'],
    ['http://1.2.3.256/', 'must be a URL such as https://example.com/hook'],
    ['http://public.test:70000/', 'must be a URL such as https://example.com/hook'],
    ['ftp://public.test/', 'must begin with https:// or http://'],
    ['file:///etc/passwd', 'must begin with https:// or http://'],
    ['javascript:alert(1)', 'must begin with https:// or http://'],
    ['https://user@public.test/', 'must not hold a user name or password'],
    ['https://:secret@public.test/', 'must not hold a user name or password'],
    ['http://public.test:0/', 'must not use port 0'],
    ['http://public.test:25/', 'must not use port 25'],
    [
      'https://private.test/',
      'names a host whose address is not public: the operator can allow its network with SLUICE_WEBHOOK_ALLOWED_NETWORKS',
    ],
    [
      'https://both.test/',
      'names a host whose address is not public: the operator can allow its network with SLUICE_WEBHOOK_ALLOWED_NETWORKS',
    ],
    [
      'https://10.1/',
      'names the address 10.0.0.1, which is not public: the operator can allow its network with SLUICE_WEBHOOK_ALLOWED_NETWORKS',
    ],
    [
      'https://[::ffff:169.254.169.254]/',
      'names the address ::ffff:a9fe:a9fe, which is not public: the operator can allow its network with SLUICE_WEBHOOK_ALLOWED_NETWORKS',
    ],
  ])('%s', async (url, reason) => {
    await expect(checkTarget(url, 'notification_config.url', options)).rejects.toMatchObject({
      code: 'invalid_field',
      field: 'notification_config.url',
      message: `Invalid field: notification_config.url ${reason}`,
    })
  })
})

test.each([
  'https://public.test/hook?token=1',
  'http://PUBLIC.test:8080/',
  'https://8.8.8.8/',
  'http://192.168.7.1:8125/',
  // Its name can't be resolved now.
  'https://nothing.test/',
])('%s is accepted', async (url) => {
  await expect(checkTarget(url, 'url', options)).resolves.toBeUndefined()
})

test('an address in a refused network counts as one that is not public', async () => {
  for (const [refused, url] of [
    ['2606:4700::/32', 'https://public.test/'],
    ['8.8.8.0/24', 'https://8.8.8.8/'],
  ] as const) {
    const outcome = checkTarget(url, 'url', { ...options, refusedNetworks: [refused] })
    await expect(outcome).rejects.toMatchObject({
      code: 'invalid_field',
      message: expect.stringContaining('not public'),
    })
  }
})

test('behind a proxy names are not resolved here, and addresses are judged all the same', async () => {
  const proxied = { ...options, proxy: 'http://proxy.test:4750' }
  await checkTarget('https://nothing.test/', 'url', proxied)
  await expect(checkTarget('https://127.1/', 'url', proxied)).rejects.toMatchObject({ code: 'invalid_field' })
})
