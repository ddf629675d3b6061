import { alertLimits } from '@sluice/contracts/alerts'
import { type LimitDescription, number, refused, text } from './limit-description.ts'

/** Every limit of alert rules that a request can meet, or that bounds what is kept. */
export const alertLimitDescriptions: Readonly<Record<keyof typeof alertLimits, LimitDescription>> = {
  nameLengthMax: text('name', alertLimits.nameLengthMax),
  descriptionLengthMax: text('description', alertLimits.descriptionLengthMax),
  channelLengthMax: text('notification_config.channel', alertLimits.channelLengthMax),
  urlLengthMax: text('notification_config.url', alertLimits.urlLengthMax),
  secretLengthMax: text('notification_config.secret', alertLimits.secretLengthMax),
  recipientsMax: {
    what: '`notification_config.to`',
    value: `${alertLimits.recipientsMax} addresses`,
    beyond: refused(
      400,
      `Invalid field: notification_config.to must contain at most ${alertLimits.recipientsMax} items`,
    ),
  },
  windowMsMin: {
    what: 'shortest `condition.window`',
    value: '1m',
    beyond: refused(400, 'Invalid field: condition.window must be from 1m to 30d'),
  },
  windowMsMax: {
    what: 'longest `condition.window`',
    value: '30d',
    beyond: refused(400, 'Invalid field: condition.window must be from 1m to 30d'),
  },
  forMsMax: { what: '`for`', value: '7d', beyond: refused(400, 'Invalid field: for must be from 0s to 7d') },
  cooldownMsMax: {
    what: '`cooldown`',
    value: '30d',
    beyond: refused(400, 'Invalid field: cooldown must be from 0s to 30d'),
  },
  rulesPerSiteMax: {
    what: 'alert rules of a site',
    value: number(alertLimits.rulesPerSiteMax),
    beyond: refused(409, `Site has ${alertLimits.rulesPerSiteMax} alert rules, the maximum: delete one first`),
  },
  emailTestsPerHourMax: {
    what: 'tests of e-mail rules of a site in any hour, those of deleted rules included',
    value: number(alertLimits.emailTestsPerHourMax),
    beyond: refused(429, 'Rate limit exceeded. Retry after <n> seconds.'),
  },
  emailsPerHourMax: {
    what: 'e-mails of the present rules of a site in any hour, tests included',
    value: number(alertLimits.emailsPerHourMax),
    beyond: 'the notification has failed, and the history of the rule says why; it is not tried again',
  },
  historyDays: { what: 'history of a rule', value: `${alertLimits.historyDays} days`, beyond: 'removed' },
  previewDays: { what: 'time that a preview covers', value: `${alertLimits.previewDays} days`, beyond: '–' },
  previewPointsMax: {
    what: 'points and firings that a preview lists',
    value: number(alertLimits.previewPointsMax),
    beyond: 'neighbouring points are merged into one, and the last firings are listed',
  },
}
