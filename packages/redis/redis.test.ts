import { describeWithRedis, testRedis } from '@sluice/engines/testing'
import { describeRedis } from './conformance.ts'

describeWithRedis('redis', () => {
  describeRedis('redis', () => testRedis()?.url ?? '')
})
