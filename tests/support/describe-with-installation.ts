import { describeWith } from './describe-with.ts'
import { kafkaMissing } from './engines/kafka-files.ts'
import { postgresPrograms } from './engines/postgres-programs.ts'
import { redisMissing } from './engines/redis.ts'

/**
 * `describe` for suites that destroy and restore an installation (tests/drill/rig.ts): they need engines that are
 * installed on the machine.
 */
export const describeWithInstallation = describeWith(
  'Kafka, Redis or PostgreSQL of the machine',
  kafkaMissing() === undefined && redisMissing() === undefined && postgresPrograms() !== undefined,
)
