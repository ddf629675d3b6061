// What tests see of a real Redis besides the ports.
import { Redis } from 'ioredis'

/** Every key with what it holds, whatever its type. */
export async function dumpRedis(url: string): Promise<Record<string, unknown>> {
  const client = new Redis(url)
  try {
    const dump: Record<string, unknown> = {}
    for await (const keys of client.scanStream({ count: 1_000 })) {
      for (const key of keys as string[]) {
        const type = await client.type(key)
        dump[key] = type === 'hash' ? await client.hgetall(key) : await client.get(key)
      }
    }
    return dump
  } finally {
    client.disconnect()
  }
}
