package schema

// Transfer gives each card of $1 the evidence of a card with the same bytes, when that
// has the versions of $2, is not older than $4 and says the same hash; other cards are
// left alone. It returns the cards that were given some. A donor that cannot be the same
// image is logged as an anomaly of run $3.
const Transfer = `/* conveyor:transfer */ select transfer_evidence($1, $2, $3, $4)`
