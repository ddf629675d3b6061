import { describeRedis } from './conformance.ts'

describeRedis('memory', () => 'memory:')
