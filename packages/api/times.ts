import joi from 'joi'

/** A time in an answer, Unix ms; null where there is none. */
export const timeOrNull = joi.number().integer().allow(null).required()
