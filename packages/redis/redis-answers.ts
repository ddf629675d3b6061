import type { Result } from 'ioredis'
import type { IdempotentAnswers, StoredAnswer, Times } from './ports.ts'
import type { RedisConnection } from './redis-connection.ts'

type BeginReply = [state: 'new' | 'running' | 'other'] | [state: 'answered', json: string]

declare module 'ioredis' {
  interface RedisCommander<Context> {
    beginAnswer(key: string, fingerprint: string, claimMs: number): Result<BeginReply, Context>
    finishAnswer(key: string, fingerprint: string, json: string, answerMs: number): Result<number, Context>
    abandonAnswer(key: string): Result<number, Context>
  }
}

const beginScript = `
local claim = redis.call('hmget', KEYS[1], 'fingerprint', 'answer')
if not claim[1] then
  redis.call('hset', KEYS[1], 'fingerprint', ARGV[1])
  redis.call('pexpire', KEYS[1], ARGV[2])
  return {'new'}
end
if claim[1] ~= ARGV[1] then return {'other'} end
if claim[2] then return {'answered', claim[2]} end
return {'running'}
`

const finishScript = `
local claim = redis.call('hmget', KEYS[1], 'fingerprint', 'answer')
if claim[1] and (claim[1] ~= ARGV[1] or claim[2]) then return 0 end
redis.call('hset', KEYS[1], 'fingerprint', ARGV[1], 'answer', ARGV[2])
return redis.call('pexpire', KEYS[1], ARGV[3])
`

const abandonScript = `
if redis.call('hexists', KEYS[1], 'answer') == 1 then return 0 end
return redis.call('del', KEYS[1])
`

/** Claims and answers as hashes at `answer:<id>`, which Redis removes by itself. */
export function redisAnswers(connection: RedisConnection, { claimMs, answerMs }: Times): IdempotentAnswers {
  const { client } = connection
  client.defineCommand('beginAnswer', { numberOfKeys: 1, lua: beginScript })
  client.defineCommand('finishAnswer', { numberOfKeys: 1, lua: finishScript })
  client.defineCommand('abandonAnswer', { numberOfKeys: 1, lua: abandonScript })
  const keyOf = (id: string): string => `answer:${id}`

  return {
    async begin(id, fingerprint) {
      const [state, json] = await connection.ask(() => client.beginAnswer(keyOf(id), fingerprint, claimMs))
      return state === 'answered' ? { state, answer: JSON.parse(json) as StoredAnswer } : { state }
    },
    async finish(id, fingerprint, answer) {
      await connection.ask(() => client.finishAnswer(keyOf(id), fingerprint, JSON.stringify(answer), answerMs))
    },
    async abandon(id) {
      await connection.ask(() => client.abandonAnswer(keyOf(id)))
    },
  }
}
